package jobs

import (
	"context"
	"net/http"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Actions lists the actions of all tasks of a job, in the order of the jobspec.
func (s *Service) Actions(ctx context.Context, _ *rpc.Call, req *message.JobActionListRequest) (*message.JobActionListResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobActionListResponse) error {
			job := snap.Job(ws, handler.NamespaceOf(req.Namespace), req.JobID)
			if job == nil {
				return apierror.Errorf(http.StatusNotFound, "job not found")
			}
			out.Index = job.ModifyIndex
			out.Actions = []*message.JobAction{}
			for _, g := range job.TaskGroups {
				for _, t := range g.Tasks {
					for _, a := range t.Actions {
						out.Actions = append(out.Actions, &message.JobAction{Action: *a, TaskName: t.Name, TaskGroupName: g.Name})
					}
				}
			}
			return nil
		})
}
