"""What every section is made of: fields with labels, variants, components."""
