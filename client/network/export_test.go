package network

// Arguments returns the CNI_ARGS of a request, or the error for those of its job.
func Arguments(r *Request) ([][2]string, error) { return arguments(r), checkArgs(r.Network) }
