package drivers

// DecodeByText is Decode without its shorter way.
var DecodeByText = byText

// DecodePlain is the shorter way of Decode.
var DecodePlain = plain
