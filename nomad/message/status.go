package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// BlockingTimeout returns the maximum wait of a blocking query. It is the requested time, limited to five minutes.
// The default is five minutes.
func (q *QueryOptions) BlockingTimeout() time.Duration {
	if q.MaxQueryTime <= 0 || q.MaxQueryTime > nomad.MaxBlockingRPCQueryTime {
		return nomad.MaxBlockingRPCQueryTime
	}
	return q.MaxQueryTime
}
