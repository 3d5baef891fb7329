package docker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestLabelsOfImage checks that the agent neither lists, ends nor removes a container that it has not made, although its
// image has the labels of a container of a task, or of an allocation's network.
func TestLabelsOfImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ShortenDangling(100*time.Millisecond, 0)
	lost := f.task(shell("sleep 1000"))
	f.start(lost)
	status, err := f.InspectTask(lost.ID)
	if err != nil {
		t.Fatal(err)
	}
	labels := f.inspect(status.Attributes["container_id"]).Config.Labels
	var foreign []string
	for name, task := range map[string]string{"operator-1": "other/web/1", "operator": ""} {
		changes := []string{`CMD ["sleep", "1000"]`}
		for key, value := range labels {
			if key == "open-nomad.task" {
				value = task
			}
			changes = append(changes, fmt.Sprintf("LABEL %s=%q", key, value))
		}
		foreign = append(foreign, f.operator(name, changes))
	}
	f.Abandon()
	next := f.open("docker", f.config)
	list, err := next.ListTasks(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != lost.ID {
		t.Errorf("ListTasks() = %+v, %v, want only %s", list, err, lost.ID)
	}
	if err := next.DestroyTask("other/web/1", true); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("DestroyTask() of a task that only an image names = %v", err)
	}
	prints := f.Fingerprint(t.Context()) // it has no task, so it removes the lost container
	go func() {
		for range prints {
		}
	}()
	testpace.Until(t, "the removal of the lost container", func() bool {
		_, err := f.daemon.API.ContainerInspect(t.Context(), status.Attributes["container_id"], client.ContainerInspectOptions{})
		return err != nil && strings.Contains(err.Error(), "No such container")
	})
	for _, id := range foreign {
		if c := f.inspect(id); !c.State.Running {
			t.Errorf("container %s of an operator: %+v", c.Name, c.State)
		}
	}
}

// operator starts a container from an image with changes, as an operator does, and returns its ID.
func (f *fixture) operator(name string, changes []string) string {
	f.t.Helper()
	api, ctx := f.daemon.API, f.t.Context()
	base, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Image: testdocker.Image})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := api.ContainerCommit(ctx, base.ID, client.ContainerCommitOptions{Reference: name + ":1", Changes: changes}); err != nil {
		f.t.Fatal(err)
	}
	made, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Image: name + ":1", Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := api.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		f.t.Fatal(err)
	}
	return made.ID
}
