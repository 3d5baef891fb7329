package api

// MetricsSummary is the last complete interval of an agent's metrics.
type MetricsSummary struct {
	Timestamp string
	Gauges    []GaugeValue
	Points    []PointValue
	Counters  []SampledValue
	Samples   []SampledValue
}

// GaugeValue is the current value of a metric.
type GaugeValue struct {
	Name          string
	Value         float32
	DisplayLabels map[string]string `json:"Labels"`
}

// PointValue is a metric with all recorded values.
type PointValue struct {
	Name   string
	Points []float32
}

// SampledValue is a counter or timer with its aggregate over the interval.
type SampledValue struct {
	Name string
	*AggregateSample
	Mean          float64
	Stddev        float64
	DisplayLabels map[string]string `json:"Labels"`
}

// AggregateSample is the aggregate of the values of a SampledValue.
type AggregateSample struct {
	Count int
	Rate  float64
	Sum   float64
	Min   float64
	Max   float64
}
