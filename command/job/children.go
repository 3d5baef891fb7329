package job

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// template prints the summary and the children of a periodic or parameterized job.
func (o *statusOptions) template(e *term.Env, c *api.Client, j *api.Job, q *api.QueryOptions) error {
	s, _, err := c.Jobs().Summary(*j.ID, q)
	if err != nil {
		return fmt.Errorf("Error querying job summary: %w", err)
	}
	launched := family{summary: "Children Job Summary", prefix: *j.ID + api.JobPeriodicLaunchSuffix, title: "Previously Launched Jobs",
		none: "No instances of periodic job found"}
	if p := j.ParameterizedJob; p != nil {
		launched = family{summary: "Parameterized Job Summary", prefix: *j.ID + api.JobDispatchLaunchSuffix, title: "Dispatched Jobs",
			none: "No dispatched instances of parameterized job found"}
		e.Println("\n" + e.Bold("Parameterized Job"))
		e.Println(term.Pairs([]string{term.Row("Payload", p.Payload), term.Row("Required Metadata", strings.Join(p.MetaRequired, ", ")),
			term.Row("Optional Metadata", strings.Join(p.MetaOptional, ", "))}))
	}
	if n := s.Children; n != nil {
		e.Println("\n" + e.Bold(launched.summary))
		e.Println(term.Table([]string{"Pending|Running|Dead", term.Row(n.Pending, n.Running, n.Dead)}))
	}
	return launched.show(e, c, q)
}

// family holds the headings and the ID prefix of the children of a job.
type family struct{ summary, prefix, title, none string }

// show prints the list of the children.
func (f family) show(e *term.Env, c *api.Client, q *api.QueryOptions) error {
	list := *q
	list.Prefix = f.prefix
	jobs, _, err := c.Jobs().List(&list)
	if err != nil {
		return fmt.Errorf("Error querying child jobs: %w", err)
	}
	e.Println("\n" + e.Bold(f.title))
	if len(jobs) == 0 {
		e.Println(f.none)
		return nil
	}
	rows := []string{"ID|Status"}
	for _, child := range jobs {
		rows = append(rows, term.Row(child.ID, child.Status))
	}
	e.Println(term.Table(rows))
	return nil
}
