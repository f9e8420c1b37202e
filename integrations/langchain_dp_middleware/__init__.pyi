from ._answers import note_answer as note_answer
from .agents import DPAgentMiddleware as DPAgentMiddleware
from .chat_model import DPChatModel as DPChatModel
from .check import Finding as Finding, check_agent as check_agent, check_chain as check_chain
from .documents import DPDocumentTransformer as DPDocumentTransformer
from .embeddings import DPEmbeddings as DPEmbeddings
from .head import DPSanitizer as DPSanitizer, PrivateHead as PrivateHead
from .inferdpt import InferDPTChatModel as InferDPTChatModel
from .privrewrite import PrivRewriteRunnable as PrivRewriteRunnable
from .retriever import DPRetriever as DPRetriever
from .tracing import untraced as untraced
