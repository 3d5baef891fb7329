package scheduler

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// triggers are the reasons for an evaluation that the schedulers know. A newer server may have others,
// whose meaning is not known here.
var triggers = map[string]bool{
	nomad.EvalTriggerJobRegister:          true,
	nomad.EvalTriggerJobDeregister:        true,
	nomad.EvalTriggerPeriodicJob:          true,
	nomad.EvalTriggerScaling:              true,
	nomad.EvalTriggerNodeUpdate:           true,
	nomad.EvalTriggerNodeDrain:            true,
	nomad.EvalTriggerAllocStop:            true,
	nomad.EvalTriggerScheduled:            true,
	nomad.EvalTriggerRollingUpdate:        true,
	nomad.EvalTriggerDeploymentWatcher:    true,
	nomad.EvalTriggerFailedFollowUp:       true,
	nomad.EvalTriggerMaxPlans:             true,
	nomad.EvalTriggerRetryFailedAlloc:     true,
	nomad.EvalTriggerAllocReschedule:      true,
	nomad.EvalTriggerQueuedAllocs:         true,
	nomad.EvalTriggerPreemption:           true,
	nomad.EvalTriggerReconnect:            true,
	nomad.EvalTriggerMaxDisconnectTimeout: true,
}

// handles reports whether the schedulers know the reason. An evaluation without one is processed.
func handles(trigger string) bool { return trigger == "" || triggers[trigger] }

// unhandled returns the failed form of an evaluation whose reason is not known.
func (b *base) unhandled() *nomad.Evaluation {
	failed := *b.eval
	failed.Status = nomad.EvalStatusFailed
	failed.StatusDescription = fmt.Sprintf("scheduler cannot handle '%s' evaluation reason", b.eval.TriggeredBy)
	failed.ModifyTime = b.now().UnixNano()
	return &failed
}

// onEveryNode reports whether evaluations of the type are of jobs that run on every feasible node.
func onEveryNode(evalType string) bool {
	return evalType == nomad.JobTypeSystem || evalType == nomad.JobTypeSysBatch
}
