package deploy

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Event moves a deployment from one status to the next.
type Event string

// Events of a deployment.
const (
	Complete  Event = "complete"  // every group has enough healthy allocations
	Unhealthy Event = "unhealthy" // an allocation is unhealthy and will not be replaced
	Deadline  Event = "deadline"  // a group reached its progress deadline
	Fail      Event = "fail"      // user request
	Pause     Event = "pause"     // user request
	Resume    Event = "resume"    // user request
	Unblock   Event = "unblock"   // user request
	Cancel    Event = "cancel"    // user request
	Start     Event = "start"     // user request
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
	{nomad.DeploymentStatusRunning, Cancel}:    {nomad.DeploymentStatusCancelled, nomad.DeploymentStatusDescriptionCancelledByUser},
	{nomad.DeploymentStatusPaused, Cancel}:     {nomad.DeploymentStatusCancelled, nomad.DeploymentStatusDescriptionCancelledByUser},
	{nomad.DeploymentStatusBlocked, Cancel}:    {nomad.DeploymentStatusCancelled, nomad.DeploymentStatusDescriptionCancelledByUser},
	{nomad.DeploymentStatusPending, Cancel}:    {nomad.DeploymentStatusCancelled, nomad.DeploymentStatusDescriptionCancelledByUser},
	{nomad.DeploymentStatusBlocked, Fail}:      {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser},
	{nomad.DeploymentStatusPending, Fail}:      {nomad.DeploymentStatusFailed, nomad.DeploymentStatusDescriptionFailedByUser},
	{nomad.DeploymentStatusBlocked, Unblock}:   {nomad.DeploymentStatusSuccessful, nomad.DeploymentStatusDescriptionSuccessful},
	{nomad.DeploymentStatusPending, Start}:     {nomad.DeploymentStatusRunning, nomad.DeploymentStatusDescriptionRunning},
}

// Next returns the status after event and its description, or an error if there is no such move.
func Next(status string, event Event) (next, description string, err error) {
	to, ok := moves[edge{status, event}]
	if !ok {
		return status, "", apierror.Errorf(400, "deployment is %s: no move on %q", status, event)
	}
	return to.status, to.description, nil
}

// move returns the status update of d for the event.
func move(d *nomad.Deployment, event Event, at int64) (*nomad.DeploymentStatusUpdate, error) {
	status, description, err := Next(d.Status, event)
	if err != nil {
		return nil, fmt.Errorf("deployment %s: %w", d.ID, err)
	}
	return &nomad.DeploymentStatusUpdate{DeploymentID: d.ID, Status: status, StatusDescription: description, UpdatedAt: at}, nil
}
