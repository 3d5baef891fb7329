package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// promotion is the type of the events of a promotion.
const promotion = "DeploymentPromotion"

// lateness is how long after its progress deadline a deployment may end: a leader must exist.
const lateness = 30 * time.Second

// CheckCanaries checks the deployments of a job in a history, and returns the number of promotions.
//
//   - At most canary allocations are live canaries at a time.
//   - A deployment with canaries is promoted once if it is successful, and at most once otherwise.
//   - A deployment is successful or fails, not long after its progress deadline, and keeps its last status.
func CheckCanaries(changes []Change, job string, canary int) (promotions int, err error) {
	promoted, over := map[string]uint64{}, map[string]string{}
	w, err := replay(changes, func(w *replayed, entry []Change) error {
		for _, c := range entry {
			d := c.Deployment
			if d == nil || d.JobID != job {
				continue
			}
			if c.Type == promotion {
				if was := promoted[d.ID]; was != 0 {
					return fmt.Errorf("deployment %s is promoted again, first at index %d", d.ID, was)
				}
				promoted[d.ID] = c.Index
			}
			if was := over[d.ID]; was != "" && was != d.Status {
				return fmt.Errorf("deployment %s is %s, it was %s", d.ID, d.Status, was)
			}
			if terminal(d) {
				over[d.ID] = d.Status
			}
		}
		if n := w.canariesOf(job); n > canary {
			return fmt.Errorf("%d canaries of %s are live, %d is the limit", n, job, canary)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, d := range w.deployments {
		if d.JobID != job {
			continue
		}
		if err := endedWell(d, promoted[d.ID] != 0); err != nil {
			return 0, err
		}
	}
	return len(promoted), nil
}

// terminal reports whether a deployment has ended.
func terminal(d *api.Deployment) bool {
	switch d.Status {
	case api.DeploymentStatusSuccessful, api.DeploymentStatusFailed, api.DeploymentStatusCancelled:
		return true
	}
	return false
}

// endedWell checks the last state of a deployment.
func endedWell(d *api.Deployment, promoted bool) error {
	if !terminal(d) {
		return fmt.Errorf("deployment %s of version %d remains %s: %s", d.ID, d.JobVersion, d.Status, d.StatusDescription)
	}
	if d.Status == api.DeploymentStatusCancelled {
		return fmt.Errorf("deployment %s of version %d is cancelled: %s", d.ID, d.JobVersion, d.StatusDescription)
	}
	var by time.Time
	canaries := 0
	for _, g := range d.TaskGroups {
		canaries += g.DesiredCanaries
		if g.RequireProgressBy.After(by) {
			by = g.RequireProgressBy
		}
	}
	if at := time.Unix(0, d.ModifyTime); !by.IsZero() && at.After(by.Add(lateness)) {
		return fmt.Errorf("deployment %s is %s %v after its progress deadline", d.ID, d.Status, at.Sub(by).Round(time.Second))
	}
	if d.Status == api.DeploymentStatusSuccessful && canaries > 0 && !promoted {
		return fmt.Errorf("deployment %s is successful without a promotion", d.ID)
	}
	return nil
}

// canariesOf returns the number of live canaries of a job that are not promoted.
func (w *replayed) canariesOf(job string) (n int) {
	for _, a := range w.allocs {
		if a.JobID == job && live(a) && a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
			n++
		}
	}
	return n
}

// roundKey is the key of the metadata that each registration of a job changes. A reverted job has an old value.
const roundKey = "round"

// revertText is in the description of a deployment that reverted its job.
const revertText = "rolling back to job version"

// version is a version of a job.
type version struct {
	number   uint64
	round    string
	reverted bool // its deployment failed and reverted the job
}

// CheckReverts checks the versions of a job in a history, and returns the number of reverts. Each deployment that
// fails and reverts its job makes exactly one new version, which is a copy of an older one, and nothing else makes one.
func CheckReverts(changes []Change, job string) (reverts int, err error) {
	var versions []version
	w, err := replay(changes, func(_ *replayed, entry []Change) error {
		for _, c := range entry {
			if c.Job == nil || c.Key != job || c.Job.Version == nil {
				continue
			}
			if len(versions) == 0 || *c.Job.Version != versions[len(versions)-1].number {
				versions = append(versions, versionOf(c.Job))
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, d := range w.deployments {
		i := slices.IndexFunc(versions, func(v version) bool { return v.number == d.JobVersion })
		if d.JobID == job && i >= 0 && d.Status == api.DeploymentStatusFailed && strings.Contains(d.StatusDescription, revertText) {
			versions[i].reverted = true
		}
	}
	return countReverts(versions)
}

func versionOf(j *api.Job) version { return version{number: *j.Version, round: j.Meta[roundKey]} }

// countReverts returns how many of the versions are reverts.
func countReverts(versions []version) (reverts int, err error) {
	rounds := map[string]bool{}
	for i, v := range versions {
		old, pending := rounds[v.round], i > 0 && versions[i-1].reverted
		switch {
		case i > 0 && v.number != versions[i-1].number+1:
			return 0, fmt.Errorf("version %d follows version %d", v.number, versions[i-1].number)
		case old && !pending:
			return 0, fmt.Errorf("version %d is a copy of an older one, and no deployment of version %d reverted it", v.number, v.number-1)
		case !old && pending:
			return 0, fmt.Errorf("version %d is new, the deployment of version %d should have reverted it", v.number, v.number-1)
		case old:
			reverts++
		}
		rounds[v.round] = true
	}
	if n := len(versions); n > 0 && versions[n-1].reverted {
		return 0, fmt.Errorf("the deployment of version %d reverted the job, and no version follows", versions[n-1].number)
	}
	return reverts, nil
}
