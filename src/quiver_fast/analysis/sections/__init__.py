"""From figures to sections: rows of name, value and unit, tables and sentences."""
