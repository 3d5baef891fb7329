package allochook

import (
	"context"
	"fmt"
)

// networkHook sees that the network the group asks for is one this client has:
// the host's. Ports of the host need no preparation.
type networkHook struct{}

func (*networkHook) Name() string { return "network" }

func (*networkHook) Prerun(_ context.Context, req *PrerunRequest, _ *PrerunResponse) error {
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	if group == nil {
		return nil
	}
	for _, n := range group.Networks {
		if n.Mode != "" && n.Mode != "host" {
			return fmt.Errorf("this client does not have the network mode %q yet", n.Mode)
		}
	}
	return nil
}
