"""Building blocks of the sections: fields with labels, variants, and components of the model."""
