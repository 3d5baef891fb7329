package sdk_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// oddJobIDs are IDs that look like other routes, or contain special characters of URLs and
// terminals.
var oddJobIDs = []string{"a/b/c", "a/plan", "a/versions/t/tag", "a/dispatch/payload", `ü%2F?#"`, "%2f%00", "..", ".", "/a//b/", "a+b&c=d;e",
	"job-id/with\\troublesome:characters\n?&字", "\x1b[31m\r\t", "|", strings.Repeat("x", 300)}

// A job ID may contain any character except space and NUL, on every route with a job ID.
func TestSDKJobIDs(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	for _, id := range oddJobIDs {
		t.Run(id, func(t *testing.T) {
			if err := errors.Join(oddJob(c, id)...); err != nil {
				t.Error(err)
			}
		})
	}
	for id, want := range map[string]string{"a b": "space", "a\x00b": "NUL character", "": "Job must have an ID"} {
		_, _, err := c.Jobs().Register(jobCalled(id), nil)
		harness.WantError(t, fmt.Sprintf("Register(%q)", id), err, "400", want)
	}
}

func jobCalled(id string) *sdk.Job {
	return sdk.NewBatchJob(id, id, "global", 50).AddDatacenter("dc1").AddTaskGroup(sdk.NewTaskGroup("g", 1).AddTask(
		sdk.NewTask("t", "exec2").SetConfig("command", "/bin/true")))
}

// oddJob registers a job, reads it on every route and stops it.
func oddJob(c *sdk.Client, id string) []error {
	var errs []error
	is := func(what string, ok bool, err error) {
		if err != nil || !ok {
			errs = append(errs, fmt.Errorf("%s of %q: as expected %v, %v", what, id, ok, err))
		}
	}
	j := c.Jobs()
	made, _, err := j.RegisterOpts(jobCalled(id), &sdk.RegisterOptions{Submission: &sdk.JobSubmission{Source: "source", Format: "hcl2"}}, nil)
	if err != nil {
		return []error{err}
	}
	plan, _, err := j.Plan(jobCalled(id), true, nil)
	is("Plan", err == nil && plan.JobModifyIndex == made.JobModifyIndex, err)
	job, _, err := j.Info(id, nil)
	is("Info", err == nil && *job.ID == id && *job.Name == id, err)
	evals, _, err := j.Evaluations(id, nil)
	is("Evaluations", len(evals) > 0 && evals[len(evals)-1].ID == made.EvalID, err)
	_, _, err = j.Allocations(id, true, nil)
	is("Allocations", true, err)
	versions, _, _, err := j.Versions(id, true, nil)
	is("Versions", len(versions) == 1 && *versions[0].ID == id, err)
	summary, _, err := j.Summary(id, nil)
	is("Summary", err == nil && summary.JobID == id, err)
	_, _, err = j.Deployments(id, true, nil)
	is("Deployments", true, err)
	_, _, err = j.LatestDeployment(id, nil)
	is("LatestDeployment", true, err)
	sub, _, err := j.Submission(id, 0, nil)
	is("Submission", err == nil && sub.Source == "source", err)
	eval, _, err := j.ForceEvaluate(id, nil)
	is("ForceEvaluate", eval != "", err)
	_, _, err = j.Stable(id, 0, true, nil)
	is("Stable", true, err)
	found, _, err := j.PrefixList(id)
	is("PrefixList", len(found) > 0 && found[0].ID == id, err)
	search, _, err := c.Search().PrefixSearch(id, "jobs", nil)
	is("PrefixSearch", err == nil && len(search.Matches["jobs"]) > 0, err)
	eval, _, err = j.Deregister(id, false, nil)
	is("Deregister", eval != "", err)
	job, _, err = j.Info(id, nil)
	is("Info of the stopped job", err == nil && *job.Stop, err)
	eval, _, err = j.Deregister(id, true, nil)
	is("purge", eval != "", err)
	_, _, err = j.Info(id, nil)
	is("Info of the purged job", err != nil && strings.Contains(err.Error(), "job not found"), nil)
	return errs
}

// A list of jobs is complete when it is read in pages, whatever the IDs.
func TestSDKPagesOfOddJobs(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	want := map[string]bool{}
	for _, id := range append([]string{"a", "a\n", "a\nb", "a\x01"}, oddJobIDs...) {
		if _, _, err := c.Jobs().Register(jobCalled(id), nil); err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	q := &sdk.QueryOptions{PerPage: 1}
	for range len(want) {
		page, meta, err := c.Jobs().List(q)
		if err != nil || len(page) != 1 || !want[page[0].ID] {
			t.Fatalf("List() at token %q = %+v, %v", q.NextToken, page, err)
		}
		delete(want, page[0].ID)
		q.NextToken = meta.NextToken
	}
	if q.NextToken != "" {
		t.Errorf("the last page has the token %q", q.NextToken)
	}
}

// A path with a plain slash after the job ID is that of a route, if the route exists.
func TestJobRoutesBeforeIDs(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	for _, id := range []string{"a", "a/plan", "a/x"} {
		if _, _, err := c.Jobs().Register(jobCalled(id), nil); err != nil {
			t.Fatal(err)
		}
	}
	for path, code := range map[string]int{
		"/v1/job/a/plan": http.StatusMethodNotAllowed, "/v1/job/" + url.PathEscape("a/plan"): http.StatusOK, "/v1/job/a/x": http.StatusOK,
		"/v1/job/a/plan/summary": http.StatusOK,
	} {
		if resp, body := harness.Get(t, a, path); resp.StatusCode != code {
			t.Errorf("GET %s: %d %q, want %d", path, resp.StatusCode, body, code)
		}
	}
}
