package deploy

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// Event moves a deployment from one status to the next.
type Event string

// What happens to a deployment.
const (
	Complete  Event = "complete"  // every group has its healthy allocations
	Unhealthy Event = "unhealthy" // an allocation is, and there is no time for another
	Deadline  Event = "deadline"  // a group made no progress in its time
	Fail      Event = "fail"      // a person said so
	Pause     Event = "pause"     // likewise
	Resume    Event = "resume"    // likewise
)

type edge struct {
	from  string
	event Event
}

type outcome struct{ status, description string }

var moves = map[edge]outcome{
	{nomad.DeploymentStatusRunning, Complete}:  {nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful},
	{nomad.DeploymentStatusRunning, Unhealthy}: {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedAllocations},
	{nomad.DeploymentStatusRunning, Deadline}:  {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionProgressDeadline},
	{nomad.DeploymentStatusRunning, Fail}:      {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser},
	{nomad.DeploymentStatusPaused, Fail}:       {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser},
	{nomad.DeploymentStatusRunning, Pause}:     {nomad.DeploymentStatusPaused, nomad.DeploymentStatusDescriptionPaused},
	{nomad.DeploymentStatusPaused, Resume}:     {nomad.DeploymentStatusRunning, nomad.DeploymentStatusDescriptionRunning},
}

// Next returns the status that follows and why the deployment has it, and a
// refusal for a move that does not exist.
func Next(status string, event Event) (next, description string, err error) {
	to, ok := moves[edge{status, event}]
	if !ok {
		return status, "", nomad.Errorf(400, "deployment is %s: no move on %q", status, event)
	}
	return to.status, to.description, nil
}

// move returns the update that the event makes of d.
func move(d *nomad.Deployment, event Event, at int64) (*nomad.DeploymentStatusUpdate, error) {
	status, description, err := Next(d.Status, event)
	if err != nil {
		return nil, fmt.Errorf("deployment %s: %w", d.ID, err)
	}
	return &nomad.DeploymentStatusUpdate{DeploymentID: d.ID, Status: status, StatusDescription: description, UpdatedAt: at}, nil
}
