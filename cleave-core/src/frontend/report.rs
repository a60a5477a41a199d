//! Faults, collected at their spans. Every stage reports into one [`Errors`] and goes on, so that a user sees all faults at
//! once; nobody looks at a message again.
use super::message::Message;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use std::fmt;

/// The tokens that a fault is about, by the first and the last (spans cannot be joined on a stable compiler).
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub start: Span,
    pub end: Span,
}

impl Place {
    /// All of some tokens.
    pub fn of(tokens: &impl ToTokens) -> Self {
        let mut spans = tokens.to_token_stream().into_iter().map(|t| t.span());
        let start = spans.next().unwrap_or_else(Span::call_site);
        Place { start, end: spans.last().unwrap_or(start) }
    }
    /// From the start of one place to the end of another.
    pub fn to(self, other: Place) -> Self {
        Place { start: self.start, end: other.end }
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Place { start: span, end: span }
    }
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    pub place: Place,
    pub message: Message,
}

/// All faults of a kernel or of a file, in the order of their lines.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    faults: Vec<Fault>,
}

impl Errors {
    /// The same fault at the same place counts once: a helper's body is checked at each of its calls.
    pub fn push(&mut self, place: impl Into<Place>, message: Message) {
        let place = place.into();
        let known = self.faults.iter().any(|f| f.message == message && same(f.place.start, place.start) && same(f.place.end, place.end));
        if !known {
            self.faults.push(Fault { place, message })
        }
    }
    /// What syn found: its own words.
    pub fn syntax(&mut self, error: syn::Error) {
        for e in error {
            self.push(e.span(), Message { text: e.to_string(), hint: None })
        }
    }
    pub fn extend(&mut self, other: Errors) {
        other.faults.into_iter().for_each(|f| self.push(f.place, f.message))
    }
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
    /// `value`, if there is no fault.
    pub fn or<T>(mut self, value: Option<T>) -> Result<T, Errors> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => {
                self.faults.sort_by_key(|f| (f.place.start.start().line, f.place.start.start().column));
                Err(self)
            }
        }
    }
    /// A `compile_error!` for each fault, at its own tokens.
    pub fn to_compile_error(&self) -> TokenStream {
        let errors = self.faults.iter().map(|f| {
            let (start, end) = (Ident::new("start", f.place.start), Ident::new("end", f.place.end));
            syn::Error::new_spanned(quote!(#start #end), &f.message).to_compile_error()
        });
        errors.collect()
    }
    /// Each fault with the line of `source` that it is about, marked.
    pub fn render(&self, source: &str) -> String {
        let lines: Vec<&str> = source.lines().collect();
        let mut out = String::new();
        for f in &self.faults {
            let (start, end) = (f.place.start.start(), f.place.end.end());
            let line = lines.get(start.line.wrapping_sub(1)).copied().unwrap_or_default();
            let width = if end.line == start.line { end.column.saturating_sub(start.column) } else { line.chars().count().saturating_sub(start.column) };
            let mark = format!("{}{}", " ".repeat(start.column), "^".repeat(width.max(1)));
            out += &format!("{}:{}: error: {}\n    {line}\n    {mark}\n", start.line, start.column + 1, f.message.text);
            out += &f.message.hint.iter().map(|h| format!("    hint: {h}\n")).collect::<String>();
        }
        out
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            let start = fault.place.start.start();
            let line_break = if i == 0 { "" } else { "\n" };
            write!(f, "{line_break}{}:{}: {}", start.line, start.column + 1, fault.message)?
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Spans have no equality on a stable compiler; their debug form tells them apart.
fn same(a: Span, b: Span) -> bool {
    format!("{a:?}") == format!("{b:?}")
}
