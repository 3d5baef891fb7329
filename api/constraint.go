package api

// Operands of constraints, except comparisons.
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

// Constraint is a condition that a node must match.
type Constraint struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
}

// Affinity is a preference for matching nodes. Weight is from -100 to 100. A negative weight
// is an anti-affinity.
type Affinity struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
	Weight  *int8  `hcl:"weight"`
}

// Spread spreads allocations over the values of a node attribute.
type Spread struct {
	Attribute    string          `hcl:"attribute"`
	Weight       *int8           `hcl:"weight"`
	SpreadTarget []*SpreadTarget `hcl:"target,block"`
}

// SpreadTarget is the desired percentage of allocations on nodes with the value.
type SpreadTarget struct {
	Value   string `hcl:",label"`
	Percent uint8  `hcl:"percent"`
}
