package term

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// unreachable ends the message of a request that reached no agent. The message has the address and the reason.
const unreachable = "%w: start the agent, or set -address or NOMAD_ADDR to the address of another one"

// withRemedy adds the remedy to an error of a request that reached no agent. A context has a line of its own:
// see contextHint.
func (g *general) withRemedy(err error) error {
	var (
		request *url.Error
		dial    *net.OpError
		exit    *ExitError
	)
	if !errors.As(err, &request) || !errors.As(request, &dial) || dial.Op != "dial" || g.loaded == nil || g.loaded.context != nil {
		return err
	}
	if errors.As(err, &exit) {
		if exit.Err == nil {
			return err
		}
		return &ExitError{Code: exit.Code, Err: fmt.Errorf(unreachable, exit.Err)}
	}
	return fmt.Errorf(unreachable, err)
}
