package rules

import "regexp"

// objectName matches a valid name of a namespace, quota, policy, role or auth method.
var objectName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,128}$`)

// NodePoolName matches a valid name of a node pool.
var NodePoolName = regexp.MustCompile(`^[a-zA-Z0-9-_]{1,128}$`)
