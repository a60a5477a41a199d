fn main() {
    cleave::build()
}
