from capse import errors as errors
from capse.errors import CapseError as CapseError
from capse.experiments.fit import Listener as Listener
from capse.experiments.fit import fit as fit
from capse.experiments.recipe import Recipe as Recipe
from capse.experiments.recipe import load_recipe as load_recipe
from capse.experiments.search.fit import fit_search as fit_search
from capse.graph.dataset import Graph as Graph
from capse.graph.dataset import load_graph as load_graph
from capse.graph.dataset import read_graph as read_graph
from capse.graph.explanation import Explanation as Explanation
from capse.graph.link_prediction import LinkPredictionResult as LinkPredictionResult
from capse.graph.link_prediction import evaluate as evaluate
from capse.graph.prediction import Prediction as Prediction
from capse.graph.prediction import predict_file as predict_file
from capse.graph.predictor import LinkPredictor as LinkPredictor
from capse.graph.splits import split_graph as split_graph
from capse.graph.statistics import describe as describe
from capse.graph.writing import save_graph as save_graph
from capse.search.live import UserState as UserState
from capse.search.log import SearchLog as SearchLog
from capse.search.reranker import RankedDocument as RankedDocument
from capse.search.reranker import Reranker as Reranker
from capse.search.reranker import ShownDocument as ShownDocument

__version__: str

load = LinkPredictor.load
