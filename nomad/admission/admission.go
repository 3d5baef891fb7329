// Package admission decides whether a job may be written. Every write of a job passes it, by callers and by servers:
//
//	register ──▶ Caller ─────────────┐
//	revert ──▶ Reverter ─────────────┤
//	dispatch, scale, force ──▶ For ──┼─▶ Admit ──▶ rules, in order ──▶ Admitted ──▶ Command ──▶ Raft log
//	launch, rollback ──▶ Author ─────┘                       └──▶ error: nothing is written
//
// The caller of the package makes a View from a snapshot of the state. All rules of one write read this snapshot. The
// caller reads it too when it sets defaults and the index of a compare-and-set. So concurrent writes cannot make the
// rules inconsistent.
//
// An Asker has the rights for one write: those of a caller, those of the author of a registered version, or both. Each
// version stores the rights of its author (nomad.Registrant) that a version of its job needs. The servers write with
// these rights. The rules are always those of the time of the write.
//
// grant.go sets privileged = true in a task that needs it, if the Asker has the right. So every way to write a job has
// the same rule, and a plan compares the job as it would be stored.
//
// consul.go stores services of provider "consul" as native ones, unless the operator has set another mode. It is a rule
// for the same reason.
//
// A Command that contains a job can only be made from an Admitted, and only Admit makes one. internal/arch checks that
// no other package writes such log entries.
//
// To add a rule, add a row to the table in rules.go. To require another right for a job, add it in rights.go. The
// package reads state and writes nothing. It starts no goroutine.
package admission

import (
	"cmp"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// Config of an Admitter. MaxPriority and MaxCount have defaults. The other fields are required.
type Config struct {
	Region  string
	Kinds   kinds.Table // built-in kinds of drivers
	Schemas *schema.Set // of the drivers of the nodes
	// OnlyOurs returns an error (409) with the name of a feature if servers of the region may be of another build.
	OnlyOurs func(feature string) error
	// Open means that access control is off: everyone may run privileged tasks.
	Open bool
	// ExplicitPrivilege demands privileged = true of the tasks that need it. Otherwise the servers add it.
	ExplicitPrivilege bool
	MaxPriority       int // 100
	MaxCount          int // 50,000 allocations
	Spiffe            Spiffe
	Consul            *consul.Services // what happens to services of provider "consul"; nil for the default setting
	Vault             vault.Clusters   // that jobs may use; nil refuses vault blocks
}

// Admitter admits jobs in one region.
type Admitter struct{ cfg Config }

// New returns an Admitter. It sets the defaults of the config.
func New(cfg Config) *Admitter {
	cfg.MaxPriority = cmp.Or(cfg.MaxPriority, nomad.JobDefaultMaxPriority)
	cfg.MaxCount = cmp.Or(cfg.MaxCount, nomad.JobDefaultMaxCount)
	return &Admitter{cfg}
}

// MaxPriority returns the highest priority of jobs.
func (a *Admitter) MaxPriority() int { return a.cfg.MaxPriority }

// MaxCount returns the highest number of allocations of a job.
func (a *Admitter) MaxCount() int { return a.cfg.MaxCount }

// Admitted is a job that may be written. Only Admit makes one.
type Admitted struct {
	job      *nomad.Job
	warnings []string
}

// Job returns the job as it will be stored. It must not be modified.
func (j *Admitted) Job() *nomad.Job { return j.job }

// Warnings returns the warnings about the job.
func (j *Admitted) Warnings() []string { return j.warnings }

// Admit returns the job as an Admitted, or the error of the first rule that rejects it. The caller must own the job:
// Admit changes it. It stores the rights of the author, adds the privilege that the tasks need, maps services of Consul, and
// sets defaults that an earlier version of the servers did not set.
func (v *View) Admit(who Asker, job *nomad.Job) (*Admitted, error) {
	jobrules.Canonicalize(job)
	w := &write{View: v, who: who, job: job, old: v.snap.Job(nil, job.Namespace, job.ID)}
	if err := w.pass(); err != nil {
		return nil, err
	}
	job.Registrant = v.registrant(who, job)
	return &Admitted{job, w.warnings}, nil
}

// Check returns the warnings about a job and the error of the first rule that rejects it, for a caller that writes
// nothing. It does not compare the job with the registered one. The caller must own the job: Check changes it as
// Admit does.
func (v *View) Check(who Asker, job *nomad.Job) (warnings []string, err error) {
	w := &write{View: v, who: who, job: job}
	err = w.pass()
	return w.warnings, err
}

// Registration holds the fields of a log entry that registers a job.
type Registration struct {
	Submission     *nomad.JobSubmission
	Eval           *nomad.Evaluation
	EnforceIndex   bool
	JobModifyIndex uint64
}

// Command is a log entry that may contain a job.
type Command struct {
	kind message.CommandType
	body any
}

// Entry returns the type and the payload of the log entry.
func (c Command) Entry() (message.CommandType, any) { return c.kind, c.body }

// Register returns the log entry that registers the job.
func (j *Admitted) Register(r Registration) Command {
	return Command{message.JobRegisterRequestType, &message.JobRegisterRequest{
		Job: j.job, Submission: r.Submission, Eval: r.Eval, EnforceIndex: r.EnforceIndex, JobModifyIndex: r.JobModifyIndex,
		WriteRequest: message.WriteRequest{Region: j.job.Region, Namespace: j.job.Namespace},
	}}
}

// EndDeployment returns the log entry that changes the status of a deployment. It also registers the job of a rollback,
// unless it is nil.
func EndDeployment(update *nomad.DeploymentStatusUpdate, eval *nomad.Evaluation, rollback *Admitted) Command {
	req := &message.DeploymentStatusUpdateRequest{DeploymentUpdate: update, Eval: eval}
	if rollback != nil {
		req.Job = rollback.job
	}
	return Command{message.DeploymentStatusUpdateRequestType, req}
}
