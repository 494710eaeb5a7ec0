package op

import (
	"context"
	"errors"
	"net/http"

	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
)

// Model is a model of the daemon.
type Model struct {
	Name         string   `json:"name"`
	Provider     string   `json:"provider"` // empty for the offline model
	Kind         string   `json:"kind"`
	BaseURL      string   `json:"base_url"`
	ContextLimit int      `json:"context_limit"` // tokens; 0: unknown
	Active       bool     `json:"active"`
	Fallback     []string `json:"fallback"`
}

// ModelList is the list of models. The operations that change it return it, too. Changes
// last until the daemon stops or reloads.
type ModelList struct {
	Active string  `json:"active"`
	Models []Model `json:"models"`
}

// ModelName names a model.
type ModelName struct {
	Name string `json:"name"`
}

var ListModels = Add(errtable.Other, Op[Daemon, None, ModelList]{
	Name: "models.list", Does: "List the models.", Effect: Reads, Need: NeedNothing,
	Path: "GET /v1/available-models", // clients of OpenAI find the agents at /v1/models
	Run:  func(_ context.Context, d Daemon, _ *None) (ModelList, error) { return d.models(), nil },
})

var SwitchModel = Add(errtable.Other, Op[Daemon, ModelName, ModelList]{
	Name: "models.switch", Does: "Select the active model.", Effect: Manages,
	Run: func(_ context.Context, d Daemon, in *ModelName) (ModelList, error) {
		if err := d.Models().Switch(in.Name); err != nil {
			return ModelList{}, unknownModel(err)
		}
		return d.models(), nil
	},
})

var AddModels = Add(errtable.Other, Op[Daemon, model.Provider, ModelList]{
	Name: "models.add", Does: "Add a provider with its models.", Effect: Manages,
	Run: func(_ context.Context, d Daemon, in *model.Provider) (ModelList, error) {
		if err := d.Models().Add(*in); err != nil {
			return ModelList{}, errtable.Invalidf("%v", err)
		}
		return d.models(), nil
	},
})

var RemoveModel = Add(errtable.Other, Op[Daemon, ModelName, ModelList]{
	Name: "models.remove", Does: "Remove a model.", Effect: Manages,
	Run: func(_ context.Context, d Daemon, in *ModelName) (ModelList, error) {
		switch err := d.Models().Remove(in.Name); {
		case errors.Is(err, model.ErrUnknownModel):
			return ModelList{}, unknownModel(err)
		case err != nil:
			return ModelList{}, &errtable.Error{HTTP: http.StatusConflict, Kind: "in_use", Message: err.Error(), Fix: "run crabmem models switch to select another model"}
		}
		return d.models(), nil
	},
})

func (d *Daemon) models() ModelList {
	r := d.Models()
	list := ModelList{Active: r.Active(), Models: []Model{}}
	for _, i := range r.Models() {
		m := Model{Name: i.Name, Provider: i.Provider, Kind: i.Kind, ContextLimit: i.ContextLimit, Active: i.Active, Fallback: some(i.Fallback)}
		if m.Name == config.Offline {
			m.Kind = config.Offline
		}
		for _, p := range d.Setup().Config.Providers {
			if p.Name == m.Provider {
				m.BaseURL = p.BaseURL
			}
		}
		list.Models = append(list.Models, m)
	}
	return list
}

func unknownModel(err error) error {
	return &errtable.Error{HTTP: http.StatusNotFound, Kind: "unknown_model", Message: err.Error(), Fix: "run crabmem models list to see the models"}
}
