package nomad

import "time"

// The limits of blocking queries, as in Nomad 2.0.
const (
	JitterFraction          = 16
	MaxBlockingRPCQueryTime = 5 * time.Minute
)
