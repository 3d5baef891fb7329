package nomad

import (
	"strconv"
	"strings"
	"time"
)

// CoreNamespace is the namespace of core evaluations. No object can have this namespace.
const CoreNamespace = "-"

// MaxUUIDsPerWriteRequest limits the IDs in one Raft entry, so that the IDs take at most 256 KiB.
const MaxUUIDsPerWriteRequest = 7281

// NewCoreEval returns an evaluation for a core job, created at the given Raft index. It exists only in the
// broker, never in state.
func NewCoreEval(coreJob string, index uint64, now time.Time) *Evaluation {
	return &Evaluation{
		ID:          NewID(),
		Namespace:   CoreNamespace,
		Priority:    CoreJobPriority,
		Type:        JobTypeCore,
		TriggeredBy: EvalTriggerScheduled,
		JobID:       coreJob + ":" + strconv.FormatUint(index, 10),
		Status:      EvalStatusPending,
		ModifyIndex: index,
		CreateTime:  now.UnixNano(),
		ModifyTime:  now.UnixNano(),
	}
}

// CoreJob returns the name of the core job that a core evaluation is for.
func (e *Evaluation) CoreJob() string {
	name, _, _ := strings.Cut(e.JobID, ":")
	return name
}
