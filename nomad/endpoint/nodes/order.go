package nodes

import (
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// callNumbers holds, for each node, the highest number of a call of Node.UpdateAlloc and the session of the agent that
// made it. The network may deliver a call after its repetition and after newer calls, when it waited in a connection
// to a server that was cut off. It must not replace their statuses. The numbers are on the leader only and in memory.
type callNumbers struct {
	mu   sync.Mutex
	last map[string]numbered // by node
}

type numbered struct {
	session string
	number  uint64
}

// next records a call, and returns an error (409) if one with a higher number of the same session came before. Agents
// of other builds do not number their calls.
func (c *callNumbers) next(node, session string, number uint64) error {
	if session == "" || number == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]numbered{}
	}
	if had := c.last[node]; had.session == session && number < had.number {
		return apierror.Errorf(409, "update %d of the node's allocations arrived after update %d", number, had.number)
	}
	c.last[node] = numbered{session, number}
	return nil
}

// forget removes the number of a node that was purged.
func (c *callNumbers) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, node)
}
