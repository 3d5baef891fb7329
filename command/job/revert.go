package job

import (
	"context"
	"fmt"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

func revertCommand() term.Command {
	return term.Command{
		Name: "job revert", Args: "<job> <version|tag>", MinArgs: 2, MaxArgs: 2,
		Short: "Run an earlier version of a job again",
		Long: `Registers the earlier version as a new version of the job, and monitors the evaluation. The version is a number of
'job history', or a tag.`,
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				version, err := versionOf(ctx, c, stub, e.Arg(1))
				if err != nil {
					return err
				}
				resp, _, err := c.Jobs().Revert(stub.ID, version, nil, writeIn(ctx, stub.Namespace), "", "")
				if err != nil {
					return fmt.Errorf("Error reverting job: %w", err)
				}
				printWarnings(e, resp)
				switch {
				case resp.EvalID == "":
					e.Println("Job revert successful")
					return nil
				case *detach:
					e.Printf("Job revert successful\nEvaluation ID: %s\n", resp.EvalID)
					return nil
				}
				return monitor.New(e, c, stub.Namespace, *detail).Eval(ctx, resp.EvalID)
			}
		},
	}
}

// versionOf returns the number of a version, which is given as a number or as a tag.
func versionOf(ctx context.Context, c *api.Client, stub *api.JobListStub, text string) (uint64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	versions, _, _, err := c.Jobs().Versions(stub.ID, false, inNamespace(ctx, stub.Namespace))
	if err != nil {
		return 0, fmt.Errorf("Error retrieving job versions: %w", err)
	}
	for _, j := range versions {
		if j.VersionTag != nil && j.VersionTag.Name == text {
			return *j.Version, nil
		}
	}
	return 0, fmt.Errorf("Error parsing version %q: it is not a number, and job %q has no such tag", text, stub.ID)
}

func startCommand() term.Command {
	return term.Command{
		Name: "job start", Alias: []string{"start"}, Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Start a stopped job",
		Long: "Registers the last version of a stopped job again, and monitors the evaluation. Its scaling " +
			"policies are enabled as before the stop.",
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				resp, err := restore(ctx, e, c, stub)
				if err != nil {
					return err
				}
				printWarnings(e, resp)
				switch {
				case resp.EvalID == "", *detach:
					e.Println("Job start successful")
					if resp.EvalID != "" {
						e.Println("Evaluation ID: " + resp.EvalID)
					}
					return nil
				}
				return monitor.New(e, c, stub.Namespace, *detail).Eval(ctx, resp.EvalID)
			}
		},
	}
}

// restore registers a stopped job as it was before the stop.
func restore(ctx context.Context, e *term.Env, c *api.Client, stub *api.JobListStub) (*api.JobRegisterResponse, error) {
	versions, _, _, err := c.Jobs().Versions(stub.ID, false, inNamespace(ctx, stub.Namespace))
	switch {
	case err != nil:
		return nil, fmt.Errorf("Error retrieving job versions: %w", err)
	case !isTrue(versions[0].Stop):
		return nil, fmt.Errorf("Job %q has not been stopped", stub.ID)
	}
	job, no := versions[0], false
	index := *job.JobModifyIndex
	job.Stop = &no
	opts := &api.RegisterOptions{EnforceIndex: true, ModifyIndex: index}
	if ran := lastRunning(versions[1:]); ran != nil {
		enableScaling(job, ran)
		// The source is missing if the job was registered as JSON.
		opts.Submission, _, _ = c.Jobs().Submission(stub.ID, int(*ran.Version), inNamespace(ctx, stub.Namespace))
	} else if hasScaling(job) {
		e.Warnf("The versions of job %q before the stop are not stored: its scaling policies remain disabled", stub.ID)
	}
	resp, _, err := c.Jobs().RegisterOpts(job, opts, writeIn(ctx, stub.Namespace))
	if err != nil {
		return nil, fmt.Errorf("Error starting job: %w", err)
	}
	return resp, nil
}

// lastRunning returns the newest version that is not stopped, or nil.
func lastRunning(versions []*api.Job) *api.Job {
	for _, v := range versions {
		if !isTrue(v.Stop) {
			return v
		}
	}
	return nil
}

func hasScaling(job *api.Job) bool { return len(scalings(job)) > 0 }

// enableScaling enables the scaling policies of a job as in another version.
func enableScaling(job, as *api.Job) {
	was := scalings(as)
	for target, p := range scalings(job) {
		if old := was[target]; old != nil {
			p.Enabled = old.Enabled
		}
	}
}

// scalings returns the scaling policies of a job by group, task and type. A policy of a group has no task.
func scalings(job *api.Job) map[[3]string]*api.ScalingPolicy {
	out := map[[3]string]*api.ScalingPolicy{}
	for _, tg := range job.TaskGroups {
		if tg.Scaling != nil {
			out[[3]string{*tg.Name}] = tg.Scaling
		}
		for _, t := range tg.Tasks {
			for _, p := range t.ScalingPolicies {
				out[[3]string{*tg.Name, t.Name, p.Type}] = p
			}
		}
	}
	return out
}
