"""In which order records come: sampling modes as pure functions of a position, and where a consumer stands in them."""
