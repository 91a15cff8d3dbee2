"""Plans are explained, carried out, taken back and gone on with here, whatever built them."""
