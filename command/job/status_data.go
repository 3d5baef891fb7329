package job

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// jobData is an element of the list that job status prints with -json and -t.
type jobData struct {
	Job              *api.Job
	Summary          *api.JobSummary
	Allocations      []*api.AllocationListStub
	LatestDeployment *api.Deployment
	Evaluations      []*api.Evaluation
}

// print prints jobs as a list, even for one job.
func (o *statusOptions) print(ctx context.Context, e *term.Env, c *api.Client, jobs ...*api.JobListStub) error {
	list := make([]jobData, len(jobs))
	for i, stub := range jobs {
		if err := list[i].read(ctx, c, stub, o.allAllocs); err != nil {
			return fmt.Errorf("Error querying job %q: %w", stub.ID, err)
		}
	}
	return o.formats.Print(e, list)
}

// read queries all parts of the job. If all is set, the allocations include those of an
// earlier job with the same ID.
func (d *jobData) read(ctx context.Context, c *api.Client, stub *api.JobListStub, all bool) error {
	q := inNamespace(ctx, stub.Namespace)
	var err error
	if d.Job, _, err = c.Jobs().Info(stub.ID, q); err != nil {
		return err
	}
	if d.Summary, _, err = c.Jobs().Summary(stub.ID, q); err != nil {
		return err
	}
	if d.Allocations, _, err = c.Jobs().Allocations(stub.ID, all, q); err != nil {
		return err
	}
	if d.LatestDeployment, _, err = c.Jobs().LatestDeployment(stub.ID, q); err != nil {
		return err
	}
	d.Evaluations, _, err = c.Jobs().Evaluations(stub.ID, q)
	return err
}
