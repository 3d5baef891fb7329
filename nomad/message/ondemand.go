package message

// AllocTemplatesRequest is the request of RenderTemplates and DiffTemplates of ClientAllocations and Allocations.
// Without a task, it selects all running tasks with templates.
type AllocTemplatesRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocTemplatesResponse holds the rendered templates of each task.
type AllocTemplatesResponse struct {
	Tasks map[string][]*TemplateRender
	QueryMeta
}

// ArtifactCacheResponse is the reply of ArtifactCache.Status and ArtifactCache.Purge: the state of the cache, after
// the purge.
type ArtifactCacheResponse struct {
	Cache *ArtifactCache
	// Freed is the size of the removed files in bytes.
	Freed int64
	QueryMeta
}
