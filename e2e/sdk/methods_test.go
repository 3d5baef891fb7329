package sdk_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// bench is an agent with a running service and an SDK client.
type bench struct {
	*sdk.Client
	job   *sdk.Job
	eval  string
	alloc *sdk.Allocation
	node  string
}

// newBench starts an agent and a job. Its task writes one line.
func newBench(t *testing.T) *bench {
	t.Helper()
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Client: c, node: harness.NodeID(t, a)}
	text := harness.Job("web", "meta {\n k = \"v\"\n}\nupdate {\n min_healthy_time = \"10ms\"\n health_check = \"task_states\"\n}",
		harness.Shell("trap 'echo hup' HUP; echo hello; while true; do sleep 0.05; done", `kill_timeout = "100ms"`))
	if b.job, err = c.Jobs().ParseHCL(text, true); err != nil {
		t.Fatal(err)
	}
	resp, _, err := c.Jobs().RegisterOpts(b.job, &sdk.RegisterOptions{Submission: &sdk.JobSubmission{Source: text, Format: "hcl2"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.eval = resp.EvalID
	al := harness.Await(t, a, "web", "running", 1)[0]
	harness.WaitLog(t, a, al)
	harness.Evaluated(t, a, b.eval)
	harness.Within(t, harness.Patience, "a deployment that is done", func() bool {
		d, _, err := c.Jobs().LatestDeployment("web", nil)
		return err == nil && d != nil && d.Status == "successful"
	})
	if b.alloc, _, err = c.Allocations().Info(al.ID, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// one returns an error unless a list has one element that satisfies ok.
func one[T any](list []T, _ *sdk.QueryMeta, err error) func(ok func(T) bool) error {
	return func(ok func(T) bool) error {
		switch {
		case err != nil:
			return err
		case len(list) != 1:
			return fmt.Errorf("%d elements, want 1", len(list))
		case !ok(list[0]):
			return fmt.Errorf("unexpected: %+v", list[0])
		}
		return nil
	}
}

// val returns an error unless a value satisfies ok.
func val[T any](v T, _ *sdk.QueryMeta, err error) func(ok func(T) bool) error {
	return func(ok func(T) bool) error { return result(v, err)(ok) }
}

func result[T any](v T, err error) func(ok func(T) bool) error {
	return func(ok func(T) bool) error {
		switch {
		case err != nil:
			return err
		case !ok(v):
			return fmt.Errorf("unexpected: %+v", v)
		}
		return nil
	}
}

// sdkCall is one method of the SDK and its expected result.
type sdkCall struct {
	name string
	call func(b *bench) error
}

func callAll(t *testing.T, b *bench, calls []sdkCall) {
	t.Helper()
	for _, c := range calls {
		if err := c.call(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Every SDK method that reads decodes the answer.
func TestSDKReads(t *testing.T) {
	b := newBench(t)
	callAll(t, b, slices.Concat(sdkJobReads, sdkClusterReads, sdkNodeReads))
}

var sdkJobReads = []sdkCall{
	{"Jobs.List", func(b *bench) error {
		return one(b.Jobs().List(nil))(func(j *sdk.JobListStub) bool {
			return j.ID == "web" && j.Type == "service" && j.Status == "running" && j.JobSummary.Summary["g"].Running == 1 && j.SubmitTime > 0
		})
	}},
	{"Jobs.ListOptions", func(b *bench) error {
		return one(b.Jobs().ListOptions(&sdk.JobListOptions{Fields: &sdk.JobListFields{Meta: true}},
			nil))(func(j *sdk.JobListStub) bool { return j.Meta["k"] == "v" })
	}},
	{"Jobs.PrefixList", func(b *bench) error {
		return one(b.Jobs().PrefixList("we"))(func(j *sdk.JobListStub) bool { return j.ID == "web" })
	}},
	{"Jobs.Info", func(b *bench) error {
		return val(b.Jobs().Info("web", nil))(func(j *sdk.Job) bool {
			return *j.ID == "web" && *j.Version == 0 && *j.TaskGroups[0].Count == 1 && j.TaskGroups[0].Tasks[0].Driver == "raw_exec" &&
				j.TaskGroups[0].Tasks[0].Config["command"] == "/bin/sh" && *j.TaskGroups[0].Tasks[0].Resources.MemoryMB == 10
		})
	}},
	{"Jobs.Summary", func(b *bench) error {
		return val(b.Jobs().Summary("web", nil))(func(s *sdk.JobSummary) bool { return s.JobID == "web" && s.Summary["g"].Running == 1 })
	}},
	{"Jobs.Versions", func(b *bench) error {
		jobs, _, m, err := b.Jobs().Versions("web", true, nil)
		return one(jobs, m, err)(func(j *sdk.Job) bool { return *j.Version == 0 && *j.Stable })
	}},
	{"Jobs.Submission", func(b *bench) error {
		return val(b.Jobs().Submission("web", 0,
			nil))(func(s *sdk.JobSubmission) bool { return strings.Contains(s.Source, `job "web"`) && s.Format == "hcl2" })
	}},
	{"Jobs.Allocations", func(b *bench) error {
		return one(b.Jobs().Allocations("web", true, nil))(func(a *sdk.AllocationListStub) bool {
			return a.ID == b.alloc.ID && a.TaskStates["t"].State == "running"
		})
	}},
	{"Jobs.Deployments", func(b *bench) error {
		return one(b.Jobs().Deployments("web", true, nil))(func(d *sdk.Deployment) bool { return d.TaskGroups["g"].HealthyAllocs == 1 })
	}},
	{"Jobs.Evaluations", func(b *bench) error {
		list, _, err := b.Jobs().Evaluations("web", nil)
		return result(list, err)(func(l []*sdk.Evaluation) bool {
			return slices.ContainsFunc(l, func(e *sdk.Evaluation) bool { return e.ID == b.eval && e.Status == "complete" })
		})
	}},
	{"Evaluations.List", func(b *bench) error {
		list, _, err := b.Evaluations().List(nil)
		return result(list, err)(func(l []*sdk.Evaluation) bool { return len(l) > 0 })
	}},
	{"Evaluations.PrefixList", func(b *bench) error {
		return one(b.Evaluations().PrefixList(b.eval[:8]))(func(e *sdk.Evaluation) bool { return e.JobID == "web" })
	}},
	{"Evaluations.Info", func(b *bench) error {
		return val(b.Evaluations().Info(b.eval,
			nil))(func(e *sdk.Evaluation) bool { return e.TriggeredBy == "job-register" && e.Type == "service" })
	}},
	{"Evaluations.Allocations", func(b *bench) error {
		return one(b.Evaluations().Allocations(b.eval, nil))(func(a *sdk.AllocationListStub) bool { return a.ID == b.alloc.ID })
	}},
	{"Evaluations.Count", func(b *bench) error {
		return val(b.Evaluations().Count(nil))(func(c *sdk.EvalCountResponse) bool { return c.Count > 0 })
	}},
	{"Deployments.List", func(b *bench) error {
		return one(b.Deployments().List(nil))(func(d *sdk.Deployment) bool { return d.JobID == "web" && d.Status == "successful" })
	}},
	{"Deployments.PrefixList", func(b *bench) error {
		return one(b.Deployments().PrefixList(b.alloc.DeploymentID[:6]))(func(d *sdk.Deployment) bool { return d.ID == b.alloc.DeploymentID })
	}},
	{"Deployments.Info", func(b *bench) error {
		return val(b.Deployments().Info(b.alloc.DeploymentID, nil))(func(d *sdk.Deployment) bool { return d.TaskGroups["g"].DesiredTotal == 1 })
	}},
	{"Deployments.Allocations", func(b *bench) error {
		return one(b.Deployments().Allocations(b.alloc.DeploymentID,
			nil))(func(a *sdk.AllocationListStub) bool { return *a.DeploymentStatus.Healthy })
	}},
	{"Allocations.List", func(b *bench) error {
		return one(b.Allocations().List(nil))(func(a *sdk.AllocationListStub) bool { return a.JobID == "web" && a.NodeID == b.node })
	}},
	{"Allocations.PrefixList", func(b *bench) error {
		return one(b.Allocations().PrefixList(b.alloc.ID[:8]))(func(a *sdk.AllocationListStub) bool { return a.ID == b.alloc.ID })
	}},
	{"Allocations.Info", func(b *bench) error {
		return val(b.Allocations().Info(b.alloc.ID, nil))(func(a *sdk.Allocation) bool {
			return *a.Job.ID == "web" && a.AllocatedResources.Tasks["t"].Memory.MemoryMB == 10 && a.TaskStates["t"].StartedAt.Unix() > 0
		})
	}},
	{"Allocations.Stats", func(b *bench) error {
		return b.until("a sample of the task", func() bool {
			u, err := b.Allocations().Stats(b.alloc, nil)
			return err == nil && u.Tasks["t"] != nil && u.Tasks["t"].ResourceUsage.MemoryStats != nil && u.ResourceUsage != nil
		})
	}},
	{"Allocations.Checks", func(b *bench) error {
		return result(b.Allocations().Checks(b.alloc.ID, nil))(func(c sdk.AllocCheckStatuses) bool { return len(c) == 0 })
	}},
	{"Allocations.Checks by the short path", func(b *bench) error {
		var checks sdk.AllocCheckStatuses
		_, err := b.Raw().Query("/v1/allocation/"+b.alloc.ID+"/checks", &checks, nil)
		return result(checks, err)(func(c sdk.AllocCheckStatuses) bool { return c != nil && len(c) == 0 })
	}},
	{"a snapshot of an allocation's disk", func(b *bench) error {
		_, err := b.Raw().Response("/v1/client/allocation/"+b.alloc.ID+"/snapshot", nil)
		if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "the migrate token is missing or wrong") {
			return fmt.Errorf("%w, want 403 without a migrate token", err)
		}
		return nil
	}},
	{"AllocFS.List", func(b *bench) error {
		list, _, err := b.AllocFS().List(b.alloc, "/alloc/logs", nil)
		return result(list, err)(func(l []*sdk.AllocFileInfo) bool {
			return slices.ContainsFunc(l, func(f *sdk.AllocFileInfo) bool { return f.Name == "t.stdout.0" && f.Size == 6 && !f.IsDir })
		})
	}},
	{"AllocFS.Stat", func(b *bench) error {
		return val(b.AllocFS().Stat(b.alloc, "alloc/logs/t.stdout.0",
			nil))(func(f *sdk.AllocFileInfo) bool { return f.Name == "t.stdout.0" && f.Size == 6 })
	}},
	{"AllocFS.Cat", func(b *bench) error { return reads(b.AllocFS().Cat(b.alloc, "alloc/logs/t.stdout.0", nil))("hello\n") }},
	{"AllocFS.ReadAt", func(b *bench) error {
		return reads(b.AllocFS().ReadAt(b.alloc, "alloc/logs/t.stdout.0", 1, 3, nil))("ell")
	}},
	{"AllocFS.ReadAt to the end", func(b *bench) error {
		return reads(b.AllocFS().ReadAt(b.alloc, "alloc/logs/t.stdout.0", 1, -1, nil))("ello\n")
	}},
	{"AllocFS.Logs of the newest file", func(b *bench) error {
		cancel := make(chan struct{})
		defer close(cancel)
		frames, errs := b.AllocFS().Logs(b.alloc, true, "t", sdk.FSLogNameStdout, sdk.OriginEnd, 0, cancel, nil)
		select {
		case f := <-frames:
			if string(f.Data) != "hello\n" || f.Offset != 6 {
				return fmt.Errorf("the first frame is %q at %d, want the file and its end", f.Data, f.Offset)
			}
			return nil
		case err := <-errs:
			return err
		case <-time.After(harness.Patience):
			return errors.New("no frame")
		}
	}},
	{"AllocFS.Stream", func(b *bench) error {
		cancel := make(chan struct{})
		frames, errs := b.AllocFS().Stream(b.alloc, "alloc/logs/t.stdout.0", sdk.OriginStart, 0, cancel, nil)
		return firstBytes(sdk.NewFrameReader(frames, errs, cancel), "hello\n")
	}},
	{"AllocFS.Logs", func(b *bench) error {
		cancel := make(chan struct{})
		frames, errs := b.AllocFS().Logs(b.alloc, true, "t", sdk.FSLogNameStdout, sdk.OriginEnd, 3, cancel, nil)
		return firstBytes(sdk.NewFrameReader(frames, errs, cancel), "lo\n")
	}},
}

func reads(in io.ReadCloser, err error) func(want string) error {
	return func(want string) error {
		if err != nil {
			return err
		}
		defer in.Close()
		text, err := io.ReadAll(in)
		if err != nil || string(text) != want {
			return fmt.Errorf("read %q, %w, want %q", text, errors.Join(err), want)
		}
		return nil
	}
}

// firstBytes reads the start of an open stream.
func firstBytes(in io.ReadCloser, want string) error {
	defer in.Close()
	return firstOf(in, want)
}

func firstOf(in io.Reader, want string) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
		return fmt.Errorf("read %q, %v, want %q", got, err, want)
	}
	return nil
}
