//! A frame that the table does not have: a shift by whole numbers, which seldom moves. Everything that knows frames must take it from
//! this row alone.
use cleave_core::frame::{Code, Row, SHIFT, TRANSLATION};

pub static WHOLE: Row = Row { name: "whole shift", suited: f64::ceil, code: Code { suited: |greatest| format!("ceilf({greatest})"), ..SHIFT.code }, ..SHIFT };

pub static TABLE: [&Row; 2] = [&WHOLE, &TRANSLATION];
