package nomad

// Operands of constraints beside the comparisons.
const (
	ConstraintDistinctProperty  = "distinct_property"
	ConstraintDistinctHosts     = "distinct_hosts"
	ConstraintRegex             = "regexp"
	ConstraintVersion           = "version"
	ConstraintSemver            = "semver"
	ConstraintSetContains       = "set_contains"
	ConstraintSetContainsAll    = "set_contains_all"
	ConstraintSetContainsAny    = "set_contains_any"
	ConstraintAttributeIsSet    = "is_set"
	ConstraintAttributeIsNotSet = "is_not_set"
)

// Affinities holds the fields of an affinities.
type Affinities []*Affinity

// Affinity holds the fields of an affinity.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8
}

// Constraint holds the fields of a constraint.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// Constraints holds the fields of a constraints.
type Constraints []*Constraint

// Spread holds the fields of a spread.
type Spread struct {
	Attribute    string
	Weight       int8
	SpreadTarget []*SpreadTarget
}

// SpreadTarget holds the fields of a spread target.
type SpreadTarget struct {
	Value   string
	Percent uint8
}
