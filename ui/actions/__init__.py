"""Actions of menus, buttons and keys."""
