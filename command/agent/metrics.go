package agent

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/go-metrics"
)

// metricsSummary is the body of /v1/metrics, with the field names of Nomad.
type metricsSummary struct {
	Timestamp       string
	Gauges          []gaugeValue
	PrecisionGauges []gaugeValue
	Points          []pointValue
	Counters        []sampleValue
	Samples         []sampleValue
}

type gaugeValue struct {
	Name   string
	Value  float64
	Labels map[string]string
}

type pointValue struct {
	Name   string
	Points []float32
}

type sampleValue struct {
	Name                              string
	Count                             int
	Rate, Sum, Min, Max, Mean, Stddev float64
	Labels                            map[string]string
}

// Metrics returns the summary of the last complete interval, and the gauges that are computed at
// each read.
func (a *Agent) Metrics(w http.ResponseWriter, r *http.Request) (any, error) {
	shown, err := a.tel.memory.DisplayMetrics(w, r)
	if err != nil {
		return nil, err
	}
	s, ok := shown.(metrics.MetricsSummary)
	if !ok {
		return nil, fmt.Errorf("metrics: unexpected type %T", shown)
	}
	out := &metricsSummary{
		Timestamp: s.Timestamp, Gauges: []gaugeValue{}, PrecisionGauges: []gaugeValue{}, Points: []pointValue{},
		Counters: sampleValues(s.Counters), Samples: sampleValues(s.Samples),
	}
	for _, g := range s.Gauges {
		out.Gauges = append(out.Gauges, gaugeValue{g.Name, float64(g.Value), g.DisplayLabels})
	}
	a.tel.read(func(key []string, val float32, labels map[string]string) {
		out.Gauges = append(out.Gauges, gaugeValue{strings.Join(key, "."), float64(val), labels})
	})
	for _, g := range s.PrecisionGauges {
		out.PrecisionGauges = append(out.PrecisionGauges, gaugeValue{g.Name, g.Value, g.DisplayLabels})
	}
	for _, p := range s.Points {
		out.Points = append(out.Points, pointValue{p.Name, p.Points})
	}
	return out, nil
}

func sampleValues(list []metrics.SampledValue) []sampleValue {
	out := make([]sampleValue, 0, len(list))
	for _, v := range list {
		out = append(out, sampleValue{
			Name: v.Name, Count: v.Count, Rate: v.Rate, Sum: v.Sum, Min: v.Min, Max: v.Max,
			Mean: v.Mean, Stddev: v.Stddev, Labels: v.DisplayLabels,
		})
	}
	return out
}
