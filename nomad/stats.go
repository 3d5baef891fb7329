package nomad

import "strconv"

// Attribute is a typed value with a unit. The non-nil field determines the type.
type Attribute struct {
	Float  *float64
	Int    *int64
	String *string
	Bool   *bool
	Unit   string
}

// text returns the type and the value without its unit.
func (a *Attribute) text() string {
	switch {
	case a.Float != nil:
		return "float " + strconv.FormatFloat(*a.Float, 'g', -1, 64)
	case a.Int != nil:
		return "int " + strconv.FormatInt(*a.Int, 10)
	case a.String != nil:
		return "string " + *a.String
	case a.Bool != nil:
		return "bool " + strconv.FormatBool(*a.Bool)
	}
	return ""
}
