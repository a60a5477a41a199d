pub mod functions;
pub mod skinny;
pub mod vector;
