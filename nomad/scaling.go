package nomad

// ScalingPolicy bounds what an autoscaler may set the count or the resources to.
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
