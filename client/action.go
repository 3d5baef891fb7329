package client

import (
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// resolveAction replaces the command of a request by that of the action it names. The action is
// looked up in the version of the job that the allocation runs. Its command is used as stored,
// without interpolation.
func (c *Client) resolveAction(req *message.AllocExecRequest) error {
	if req.JobID != "" {
		job, err := c.allocs.jobOf(req.AllocID)
		if err != nil {
			return err
		}
		if job != req.JobID {
			return nomad.Errorf(http.StatusBadRequest, "allocation %s is of another job than %q", req.AllocID, req.JobID)
		}
	}
	if req.Action == "" {
		return nil
	}
	_, task, err := c.allocs.taskOf(req.AllocID, req.Task)
	if err == nil {
		for _, a := range task.Actions {
			if a.Name == req.Action {
				req.Cmd = append([]string{a.Command}, a.Args...)
				return nil
			}
		}
	}
	return unknownAction(req)
}

func unknownAction(req *message.AllocExecRequest) error {
	return nomad.Errorf(http.StatusBadRequest, "action %s not found in task %s", req.Action, req.Task)
}

// jobOf returns the ID of an allocation's job.
func (s *allocSet) jobOf(id string) (string, error) {
	h, err := s.find(id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.alloc.JobID, nil
}
