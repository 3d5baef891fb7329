package nomad

// Operands of constraints, in addition to the comparisons.
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

// Affinities is a list of affinities of a job, group, task or device.
type Affinities []*Affinity

// Affinity is a rule that a node should meet. Weight is -100 to 100. A negative weight expresses an anti-affinity.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8
}

// Constraint is a rule that a node must meet. The targets are interpolated for each node before the comparison.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// Constraints is a list of constraints of a job, group, task or device.
type Constraints []*Constraint

// Spread distributes allocations over the values of a node attribute. Weight, 1 to 100, is its weight
// relative to the other scores.
type Spread struct {
	Attribute    string
	Weight       int8
	SpreadTarget []*SpreadTarget
}

// SpreadTarget is the desired share, in percent, of the allocations on nodes with the given value.
type SpreadTarget struct {
	Value   string
	Percent uint8
}
