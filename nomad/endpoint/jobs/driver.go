package jobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	exec2 "github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// validate checks a canonical job: the rules of jobs, and the rules of the drivers that need
// no node.
func validate(job *nomad.Job) error {
	list := parts(jobrules.Validate(job))
	eachExec2(job, func(place string, t *nomad.Task) {
		for _, err := range append(parts(exec2.CheckTask(t.Config)), parts(checkUser(t.User))...) {
			list = append(list, fmt.Errorf("%s: %w", place, err))
		}
	})
	return errors.Join(list...)
}

// Check returns the errors and warnings of a job that can be found without server state.
// It modifies the job: it sets the defaults of the HTTP API.
func Check(job *nomad.Job) (errs, warns []string) {
	jobrules.Canonicalize(job)
	return faults(validate(job)), warnings(job)
}

// warnings returns the warnings about a canonical job: valid, but probably a mistake.
func warnings(job *nomad.Job) []string {
	out := jobrules.Warnings(job)
	eachExec2(job, func(place string, t *nomad.Task) {
		if t.User == "root" || t.User == "0" {
			out = append(out, fmt.Sprintf("%s: user %q: only nodes with allow_root in the plugin config of %s run it", place, t.User, exec2.Driver))
		}
	})
	return out
}

// warnings returns the warnings about a job, including those that depend on the configuration
// of the servers.
func (s *Service) warnings(job *nomad.Job) []string {
	snap := s.Snapshot()
	out := warnings(job)
	_, region := snap.SchedulerConfig(nil)
	if snap.NodePool(nil, job.NodePool).MemoryOversubscription(region) {
		return out
	}
	for _, tg := range job.TaskGroups {
		for _, t := range tg.Tasks {
			if t.Resources.MemoryMaxMB != 0 {
				out = append(out, fmt.Sprintf("job %q, group %q, task %q: memory_max has no effect: "+
					"memory oversubscription is not enabled in the scheduler configuration", job.ID, tg.Name, t.Name))
			}
		}
	}
	return out
}

// eachExec2 calls f for the tasks with the exec2 driver.
func eachExec2(job *nomad.Job, f func(place string, t *nomad.Task)) {
	for _, tg := range job.TaskGroups {
		for _, t := range tg.Tasks {
			if t.Driver == exec2.Driver {
				f(fmt.Sprintf("job %q, group %q, task %q", job.ID, tg.Name, t.Name), t)
			}
		}
	}
}

// dynamicPrefix is the prefix of the names of dynamic users, which a client assigns to one
// allocation.
const dynamicPrefix = "nomad-"

// maxUID is the highest valid uid. The kernel uses the next value for "no change".
const maxUID = 1<<32 - 2

// checkUser rejects users that cannot exist on a node.
func checkUser(user string) error {
	if uid, dynamic := strings.CutPrefix(user, dynamicPrefix); dynamic && number(uid) {
		return fmt.Errorf("user %q is assigned by clients and cannot be requested: remove user", user)
	}
	if !number(user) {
		return nil
	}
	if uid, err := strconv.ParseUint(user, 10, 64); err != nil || uid > maxUID {
		return fmt.Errorf("user %q is not a uid: the maximum is %d", user, maxUID)
	}
	return nil
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// parts returns the errors that err joins, or err itself. It is empty for nil.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
