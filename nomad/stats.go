package nomad

// Attribute is a typed value with a unit. The non-nil field determines the type.
type Attribute struct {
	Float  *float64
	Int    *int64
	String *string
	Bool   *bool
	Unit   string
}
