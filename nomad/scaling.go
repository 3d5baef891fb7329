package nomad

// ScalingPolicy limits the values that an autoscaler may set for the count or the resources.
type ScalingPolicy struct {
	ID          string
	Type        string
	Target      map[string]string
	Policy      map[string]any
	Min         int64
	Max         int64
	Enabled     bool
	CreateIndex uint64
	ModifyIndex uint64
}
