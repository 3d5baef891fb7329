package rules

import "github.com/open-nomad/open-nomad/internal/pattern"

// objectName matches a valid name of a namespace, quota, policy, role or auth method.
var objectName = pattern.Lazy(`^[a-zA-Z0-9-]{1,128}$`)

// NodePoolName matches a valid name of a node pool.
var NodePoolName = pattern.Lazy(`^[a-zA-Z0-9-_]{1,128}$`)
