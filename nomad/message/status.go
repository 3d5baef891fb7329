package message

import (
	"time"
)

// The limits of blocking queries, as in Nomad 2.0.
const (
	JitterFraction       = 16
	MaxBlockingQueryTime = 5 * time.Minute
)

// BlockingTimeout returns the maximum wait of a blocking query. It is the requested time, limited to five minutes.
// The default is five minutes.
func (q *QueryOptions) BlockingTimeout() time.Duration {
	if q.MaxQueryTime <= 0 || q.MaxQueryTime > MaxBlockingQueryTime {
		return MaxBlockingQueryTime
	}
	return q.MaxQueryTime
}
