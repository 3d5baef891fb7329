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

// Affinities are affinities of a job, group, task or device.
type Affinities []*Affinity

// Affinity is a rule that a node should meet. Weight is -100 to 100; a negative one
// repels.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8
}

// Constraint is a rule that a node must meet. The targets are interpolated for each
// node before they are compared.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// Constraints are constraints of a job, group, task or device.
type Constraints []*Constraint

// Spread spreads allocations over the values of a node attribute; Weight, 1 to 100,
// weighs it against the other scores.
type Spread struct {
	Attribute    string
	Weight       int8
	SpreadTarget []*SpreadTarget
}

// SpreadTarget is the share, in percent, of the allocations that belong on nodes
// with a value.
type SpreadTarget struct {
	Value   string
	Percent uint8
}
