package message

// The states of a check, and what it affects: a deployment waits for healthiness checks only.
const (
	CheckSuccess CheckStatus = "success"
	CheckWarning CheckStatus = "warning"
	CheckFailure CheckStatus = "failure"
	CheckPending CheckStatus = "pending"
	Healthiness  CheckMode   = "healthiness"
	Readiness    CheckMode   = "readiness"
)

// CheckID identifies a check of an allocation by a hash of its definition.
type CheckID string

// CheckMode is healthiness or readiness. Only healthiness checks affect deployments.
type CheckMode string

// CheckQueryResult is the latest result of a check, with its status after thresholds. The client writes it.
type CheckQueryResult struct {
	ID         CheckID
	Mode       CheckMode
	Status     CheckStatus
	StatusCode int
	Output     string
	Timestamp  int64
	Group      string
	Task       string
	Service    string
	Check      string
}

// CheckStatus is success, warning, failure or pending. Nomad 2.0 does not have warning.
type CheckStatus string
