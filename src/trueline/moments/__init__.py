"""One pass: cross-products of the rows, and every model that follows from them."""
