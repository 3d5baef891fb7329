// Registers a job, follows its evaluation and its deployment, and stops it.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/hashicorp/nomad/api"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	if err := run(client, service()); err != nil {
		log.Fatal(err)
	}
}

func service() *api.Job {
	task := api.NewTask("server", "exec2").
		SetConfig("command", "/bin/server").
		SetMeta("owner", "example").
		Constrain(api.NewConstraint("${attr.kernel.name}", "=", "linux")).
		SetLifecycle(&api.TaskLifecycle{Hook: api.TaskLifecycleHookPrestart}).
		SetLogConfig(api.DefaultLogConfig()).
		Require(&api.Resources{CPU: pointer(200), MemoryMB: pointer(64)})
	task.Templates = []*api.Template{{EmbeddedTmpl: pointer("hello"), DestPath: pointer("local/hello")}}
	task.Services = []*api.Service{{Name: "web", PortLabel: "http", Provider: "nomad",
		Checks: []api.ServiceCheck{{Type: "http", Path: "/", Interval: 10 * time.Second, Timeout: time.Second}}}}
	group := api.NewTaskGroup("servers", 2).
		AddTask(task).
		SetMeta("a", "b").
		RequireDisk(&api.EphemeralDisk{SizeMB: pointer(100)}).
		AddAffinity(api.NewAffinity("${node.datacenter}", "=", "dc1", 50)).
		AddSpread(api.NewSpread("${node.unique.id}", 100, []*api.SpreadTarget{api.NewSpreadTarget("x", 50)}))
	group.Networks = []*api.NetworkResource{{Mode: "bridge", DynamicPorts: []api.Port{{Label: "http", To: 8080}}}}
	group.Update = api.DefaultUpdateStrategy()
	group.ReschedulePolicy = api.NewDefaultReschedulePolicy(api.JobTypeService)
	job := api.NewServiceJob("example", "example", "global", 50).
		AddDatacenter("*").
		SetMeta("team", "platform").
		AddTaskGroup(group)
	job.Namespace = pointer(api.DefaultNamespace)
	job.Canonicalize()
	return job
}

func run(client *api.Client, job *api.Job) error {
	jobs := client.Jobs()
	if checked, _, err := jobs.Validate(job, nil); err != nil || len(checked.ValidationErrors) > 0 {
		return fmt.Errorf("validate: %v %v", err, checked)
	}
	plan, _, err := jobs.PlanOpts(job, &api.PlanOptions{Diff: true}, nil)
	if err != nil {
		return err
	}
	for _, group := range plan.Diff.TaskGroups {
		for action, n := range group.Updates {
			fmt.Println(group.Name, action, n)
		}
	}
	for name, metric := range plan.FailedTGAllocs {
		fmt.Println(name, metric.NodesEvaluated, metric.ConstraintFiltered, metric.DimensionExhausted)
	}
	resp, meta, err := jobs.RegisterOpts(job, &api.RegisterOptions{EnforceIndex: true, ModifyIndex: plan.JobModifyIndex, PreserveCounts: true},
		nil)
	if err != nil {
		return err
	}
	if err := wait(client, resp.EvalID, meta.LastIndex); err != nil {
		return err
	}
	deployment, _, err := jobs.LatestDeployment(*job.ID, nil)
	if err != nil {
		return err
	}
	if deployment != nil && deployment.Status == api.DeploymentStatusRunning {
		if _, _, err := client.Deployments().PromoteAll(deployment.ID, nil); err != nil {
			return err
		}
	}
	count := 3
	if _, _, err := jobs.Scale(*job.ID, "servers", &count, "more", false, nil, nil); err != nil {
		return err
	}
	if _, err := jobs.TagVersion(*job.ID, 0, "good", "the first", nil); err != nil {
		return err
	}
	if _, _, err := jobs.Revert(*job.ID, 0, nil, nil, "", ""); err != nil {
		return err
	}
	if _, _, err := jobs.Stable(*job.ID, 0, true, nil); err != nil {
		return err
	}
	versions, diffs, _, err := jobs.Versions(*job.ID, true, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, len(versions), len(diffs))
	list, _, err := jobs.ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}},
		&api.QueryOptions{Namespace: "*", Filter: `Type == "service"`})
	if err != nil {
		return err
	}
	for _, stub := range list {
		fmt.Println(stub.ID, stub.Status, stub.JobSummary.Summary["servers"].Running)
	}
	evalID, _, err := jobs.DeregisterOpts(*job.ID, &api.DeregisterOptions{Purge: true}, nil)
	if err != nil {
		return err
	}
	return wait(client, evalID, 0)
}

// wait follows an evaluation until it is complete.
func wait(client *api.Client, id string, index uint64) error {
	q := &api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}
	for {
		eval, meta, err := client.Evaluations().Info(id, q)
		if err != nil {
			return err
		}
		switch eval.Status {
		case api.EvalStatusComplete:
			allocs, _, err := client.Evaluations().Allocations(id, nil)
			for _, a := range allocs {
				fmt.Println(a.ID, a.ClientStatus, a.TaskStates["server"].State)
			}
			return err
		case api.EvalStatusFailed, api.EvalStatusCancelled:
			return fmt.Errorf("evaluation %s: %s", eval.Status, eval.StatusDescription)
		}
		q.WaitIndex = meta.LastIndex
	}
}

func pointer[T any](v T) *T { return &v }
