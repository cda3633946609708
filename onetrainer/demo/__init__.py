"""The demo that `onetrainer demo` writes: images, captions, configs. No torch."""
