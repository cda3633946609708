"""Keyboard shortcuts of the window."""

KEYS = (
    ("F5", "Start training"),
    ("Shift+F5", "Stop the run and save"),
    ("Ctrl+F", "Find a setting"),
    ("F8 / Shift+F8", "Next / previous problem"),
    ("Ctrl+O", "Open a preset"),
    ("Ctrl+S", "Save the preset"),
    ("Ctrl+Shift+S", "Save as a new preset"),
    ("Ctrl+Z / Ctrl+Shift+Z", "Undo / redo a change of settings"),
    ("Alt+1 … Alt+9, Alt+0", "Go to one of the first ten pages"),
    ("Tab / Shift+Tab", "Next / previous control"),
    ("Space", "Press a button, toggle a switch"),
    ("← / →", "Samples: previous / next step"),
    ("↑ / ↓", "Samples: previous / next prompt"),
    ("Hold Space", "Samples: compare with the first step"),
    ("F1", "Help for the current setting, or this page"),
    ("Ctrl+D", "Dark or light"),
    ("Esc", "Close a dialog or the search"),
)
