"""The demo: what `onetrainer demo` writes, and the pictures that it is made of. No torch."""
