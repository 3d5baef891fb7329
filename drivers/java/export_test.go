package java

// Parse is parse, and Decode is decode.
var (
	Parse  = parse
	Decode = decode
)
