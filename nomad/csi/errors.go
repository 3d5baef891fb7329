package csi

import "errors"

// ErrRetryable is in the errors of nodes that do not run the plugin, so that another node may answer the call. Clients match
// its text.
//
//lint:ignore ST1005 the text is that of Nomad 2.0
var ErrRetryable = errors.New("CSI client error (retryable)")
